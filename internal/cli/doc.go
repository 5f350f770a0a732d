// Package cli is the command line: it assembles the commands, which are packages below it.
//
//	func main() { os.Exit(cli.Main(os.Args, cli.NewRoot(app.Command()))) }
//
// A command reads its flags, calls the packages that do the work, and prints; layouts, texts and exit codes are those
// of Kyverno's command line, so that scripts written for it go on working. Results go to standard output; mistakes
// in the input go to standard error as `file:line: what is wrong (how to correct it)`, all of them at once, with exit
// code 1, and everything that was right is evaluated all the same. Flags whose feature does not exist yet are refused
// with a sentence, never accepted in silence.
//
// Starting must be cheap: a command computes nothing before a user calls it.
//
// The scripts of testdata run the whole program. The commands about the program itself (version, completion, docs) are here.
//
// Floor 8: imports anything below; cmd/ephor hands in the controllers' command.
package cli
