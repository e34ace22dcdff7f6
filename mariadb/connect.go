package mariadb

import "time"

// ConnectOptions says how to reach the server. Everything may be left out: option files and built-in defaults fill in
// what is not given, as they do for the tool.
type ConnectOptions struct {
	DefaultsFile string // the only option file to read; "" for the usual ones
	User         string
	Password     string // never put in an argument list, a log or an error
	Socket       string
	Host         string
	Port         int
	Timeout      time.Duration // for connecting and for each question; 0 is ten seconds
}
