package restore

// SyncOften makes a restore sync all the time, and so note every complete file soon.
func SyncOften(o Options) Options {
	o.syncEvery = 1
	return o
}
