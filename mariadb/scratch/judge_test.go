package scratch

import (
	"slices"
	"testing"
)

func TestJudge(t *testing.T) {
	ok := message{"status", "OK"}
	for _, tt := range []struct {
		name  string
		said  []message
		keyed bool
		want  Status
	}{
		{"well", []message{ok}, false, StatusOK},
		{"up to date", []message{{"status", "Table is already up to date"}}, false, StatusOK},
		{"a note", []message{{"note", "Auto-increment value: 5 is larger"}, ok}, false, StatusOK},
		{"not closed", []message{{"warning", "1 client is using or hasn't closed the table properly"}, ok}, false, StatusWarning},
		{"an error, then OK", []message{{"error", "Found 3 keys of 4"}, ok}, false, StatusWarning},
		{"corrupt", []message{{"Warning", "InnoDB: The B-tree of index PRIMARY is corrupted."}, {"error", "Corrupt"}}, false, StatusCorrupt},
		{"failed", []message{{"Error", "Table 'd.t' doesn't exist in engine"}, {"status", "Operation failed"}}, false, StatusCorrupt},
		{"only a warning", []message{{"warning", "something"}}, false, StatusCorrupt},
		{"nothing", nil, false, StatusNotChecked},
		{"no such check", []message{{"note", "The storage engine for the table doesn't support check"}}, false, StatusNotChecked},
		{"unknown engine", []message{{"Error", "Unknown storage engine 'ARCHIVE'"}, {"error", "Corrupt"}}, false, StatusNotChecked},
		{"too many files", []message{{"Error", "Can't open file: './d/t.MYI' (errno: 24 \"Too many open files\")"}, {"error", "Corrupt"}}, false, StatusNotChecked},
		{"old", []message{{"error", "Table rebuild required. Please do \"ALTER TABLE `t` FORCE\" or dump/reload to fix it!"}}, false, StatusWarning},
		{"no key", []message{{"Warning", "Table d/t is encrypted but encryption service or used key_id is not available. "}, {"error", "Corrupt"}}, false, StatusNotChecked},
		{"wrong page", []message{{"Warning", "Table d/t is encrypted but encryption service or used key_id is not available. "}, {"error", "Corrupt"}}, true, StatusCorrupt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, texts := judge(tt.said, tt.keyed)
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got != StatusOK && len(texts) == 0 {
				t.Error("got no message")
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"PATH=/bin", "NOTIFY_SOCKET=/run/x", "LISTEN_FDS=1", "MYSQL_UNIX_PORT=/s", "MBWRAP_PASSWORD=x", "WSREP_START_POSITION=x", "TZ=UTC"})
	if want := []string{"PATH=/bin", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
