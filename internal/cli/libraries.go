package cli

import "github.com/mbwrap/mbwrap/codec"

// libraries tells what compresses in this build.
func libraries() []library {
	var all []library
	for _, name := range codec.Names() {
		c, err := codec.Lookup(name)
		if err != nil || name == "none" {
			continue
		}
		all = append(all, library{Codec: name, Library: c.Library()})
	}
	return all
}
