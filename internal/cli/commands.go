package cli

// commands makes every command, in the order help shows them.
func commands(env *Env) []*command {
	all := []*command{
		newCheck(env),
		newBackup(env),
		newRestore(env),
		newVerify(env),
		newList(env),
		newShow(env),
		newFiles(env),
		newCat(env),
		newExtract(env),
		newGC(env),
		newHowto(env),
		newKeygen(env),
		newRekey(env),
		newVersion(env),
		newCompletion(env),
	}
	return append(all, newHelp(env, &all))
}
