// Package cli is the command line: one file per command.
//
//	func main() { os.Exit(cli.Main(os.Args, cli.NewRoot(app.Command()))) }
//
// A command reads its flags, calls the packages that do the work, and prints; layouts, texts and exit codes are those
// of Kyverno's command line, so that scripts written for it go on working. Results go to standard output; mistakes
// in the input go to standard error as `file:line: what is wrong (how to correct it)`, all of them at once, with exit
// code 1, and everything that was right is evaluated all the same. Flags whose feature does not exist yet are refused
// with a sentence, never accepted in silence.
//
// Starting must be cheap: nothing here may be computed before a command asks for it.
//
// Floor 8: imports anything below; the controllers' command is handed in by cmd/ephor.
package cli
