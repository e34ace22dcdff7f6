package mariadb_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mbwrap/mbwrap/mariadb/internal/scratchtest"
)

// kit makes the servers of these tests.
var kit scratchtest.Kit

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = kit.Close()
		os.Exit(code)
	}))
}
