package scratch

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// Texts of the server, in English as the guards have it.
var (
	// unable says that the server could not look, which tells nothing about the data.
	unable = []string{"Unknown storage engine", "doesn't support check", "Lock wait timeout", "Too many open files", "errno: 24",
		"Out of memory", "No space left on device"}
	// outdated says that a table is of an old version and wants to be rebuilt. The server does not look further.
	outdated = []string{"Table upgrade required", "Table rebuild required"}
	// locked says that a table is encrypted, and its key is not there: or, where there are keys, that it is damaged.
	locked = []string{"encrypted", "decryption failed"}
)

// judge makes a status of what the server says of a table: CHECK TABLE returns any number of lines, the last of which
// is "status OK" or what went wrong.
func judge(said []message, keyed bool) (Status, []string) {
	var texts []string
	quiet := true // nothing but notes and the status
	for _, m := range said {
		if m.text == "OK" && strings.EqualFold(m.kind, "status") {
			continue
		}
		texts = append(texts, strings.ToLower(m.kind)+": "+m.text)
		quiet = quiet && (strings.EqualFold(m.kind, "note") || strings.EqualFold(m.kind, "status"))
	}
	switch {
	case len(said) == 0:
		return StatusNotChecked, []string{"the server says nothing"}
	case says(said, unable), !keyed && says(said, locked):
		return StatusNotChecked, texts
	case says(said, outdated):
		return StatusWarning, texts
	}
	last := said[len(said)-1]
	well := strings.EqualFold(last.kind, "status") && (last.text == "OK" || last.text == "Table is already up to date")
	switch {
	case well && quiet:
		return StatusOK, texts
	case well:
		return StatusWarning, texts
	}
	return StatusCorrupt, texts
}

func says(said []message, texts []string) bool {
	return slices.ContainsFunc(said, func(m message) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(m.text, text) })
	})
}

// hasKeys tells whether the server has a plugin that keeps keys.
func hasKeys(ctx context.Context, db *sql.DB) (bool, error) {
	var n int
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.plugins
		WHERE plugin_type = 'ENCRYPTION' AND plugin_status = 'ACTIVE'`).Scan(&n)
	return n > 0, err
}
