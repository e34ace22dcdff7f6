package catalog

import (
	"errors"
	"testing"

	"github.com/mbwrap/mbwrap/encrypt"
)

func TestUnlockWith(t *testing.T) {
	t.Skip("placeholder")
	_ = errors.Is
	_ = encrypt.NewKey
}
