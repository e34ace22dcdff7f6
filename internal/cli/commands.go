package cli

// commands makes every command, in the order help shows them.
func commands(env *Env) []*command {
	all := []*command{
		newVersion(env),
		newCompletion(env),
	}
	return append(all, newHelp(env, &all))
}
