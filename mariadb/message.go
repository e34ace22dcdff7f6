package mariadb

import (
	"regexp"
	"strings"
)

// level is how bad a message is.
type level int

const (
	levelNote level = iota
	levelWarning
	levelError
)

// stamp matches what stands before the text of a message.
var stamp = regexp.MustCompile(`^(?:\[\d\d\] )?(FATAL ERROR: )?(?:\d{4}-\d\d-\d\d +\d{1,2}:\d\d:\d\d(?: \d+)? ?)?`)

// innoDB matches the level that InnoDB writes.
var innoDB = regexp.MustCompile(`^\[(Note|Warning|Warn|ERROR|Error|FATAL|System)\] `)

// harmless are the beginnings of messages that hold names or dumped bytes, which may spell anything.
var harmless = []string{"Streaming ", "Copying ", "Copied file ", "Compressing ", "Encrypting ", "...done", "aria table file ",
	"Skip table ", "Collect log table file", "Log table found", "DDL tracking", "len ", "InnoDB: Page dump", "Starting BACKUP STAGE",
	"Finished BACKUP STAGE", "Connecting to ", "Using server version"}

// alarms find what the tool says when something went wrong, anywhere in a message. Names in backticks have been taken
// out before.
var alarms = regexp.MustCompile(`Error writing file|(?:^|[\s.:\])])(?:Error|ERROR|error): |FATAL ERROR|\[ERROR\]|\[FATAL\]|` +
	`^(?:mariabackup|mariadb-backup|xtrabackup): (?:Error|Can't|Got error|Out of memory)|^ERROR\b`)

// warnings find what should be read although it did no harm.
var warnings = regexp.MustCompile(`(?:^|[\s.:\])])(?:Warning|WARNING|warning): `)

var backticked = regexp.MustCompile("`[^`]*`")

// parseMessage returns a message's text without its stamp, and its level.
func parseMessage(msg string) (string, level) {
	m := stamp.FindStringSubmatchIndex(msg)
	text := strings.TrimSpace(msg[m[1]:])
	if m[2] >= 0 {
		return text, levelError
	}
	if tag := innoDB.FindStringSubmatch(text); tag != nil {
		text = text[len(tag[0]):]
		switch tag[1] {
		case "Warning", "Warn":
			return text, levelWarning
		case "ERROR", "Error", "FATAL":
			return text, levelError
		}
		return text, levelNote
	}
	return text, textLevel(text)
}

// textLevel judges a message that has no level of its own.
func textLevel(text string) level {
	for _, prefix := range harmless {
		if strings.HasPrefix(text, prefix) {
			return levelNote
		}
	}
	bare := text
	if strings.Contains(text, "`") {
		bare = backticked.ReplaceAllString(text, "")
	}
	switch {
	case mayAlarm(bare) && alarms.MatchString(bare):
		return levelError
	case (strings.Contains(bare, "arning: ") || strings.Contains(bare, "WARNING: ")) && warnings.MatchString(bare):
		return levelWarning
	}
	return levelNote
}

// mayAlarm tells quickly that a message, which can be very long, has nothing that alarms could match.
func mayAlarm(text string) bool {
	for _, word := range []string{"rror", "ERROR", "FATAL", "Can't", "memory"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// fileOf returns the file that a message says is being sent, "" if it says no such thing. Names are as the tool prints
// them, relative to the data directory except for a few.
func fileOf(text string) string {
	for _, verb := range []string{"Streaming ", "Compressing and streaming ", "Copied file ", "aria table file "} {
		rest, ok := strings.CutPrefix(text, verb)
		if !ok {
			continue
		}
		for _, after := range []string{" to <STDOUT>", " for ", " is copied successfully"} {
			if i := strings.LastIndex(rest, after); i >= 0 {
				rest = rest[:i]
			}
		}
		return strings.TrimPrefix(rest, "./")
	}
	return ""
}
