// Package operate has the commands for administrators of an installation: `ephor adopt`, `cleanup`, `migrate` and `unlock`.
//
//	root.AddCommand(operate.NewAdopt(), operate.NewCleanup(), operate.NewMigrate(), operate.NewUnlock())
//
// adopt marks objects as generated, cleanup previews what a cleanup policy deletes, migrate rewrites custom resources in their storage
// version, and unlock removes the webhook configurations for a limited time.
//
// Floor 8: imports cli/remote, cli/terminal and the floors below.
package operate
