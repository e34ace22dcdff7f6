package restore_test

const helperArgument = "-restore-helper"

func helperMain([]string) int { return 1 }
