// Package cli is the command line. It assembles the commands, each of which is a package below it.
//
//	func main() { os.Exit(cli.Main(os.Args, cli.NewRoot(app.Command()))) }
//
// A command reads its flags, calls the packages that do the work, and prints. Layouts, texts and exit codes are those of
// Kyverno's command line, so that scripts written for it continue to work. Results go to standard output. Mistakes in the
// input go to standard error as `file:line: what is wrong (how to correct it)`: a command reports all of them at once,
// evaluates the input that has no mistakes, and exits with code 1. It rejects flags whose feature is not implemented with an
// error and never ignores them silently.
//
// Starting must be cheap: a command computes nothing before a user runs it.
//
// The scripts of testdata run the whole program. This package also contains the commands for the program itself: version,
// completion, docs and schema.
//
// Floor 8: imports anything below; cmd/ephor passes in the controllers' command.
package cli
