package restore

import "time"

// SyncOften makes a restore note every complete file at once.
func SyncOften(o Options) Options {
	o.journal = journalLimits{1, time.Nanosecond}
	return o
}
