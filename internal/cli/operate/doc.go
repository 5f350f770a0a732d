// Package operate implements the commands for administrators of an installation: `ephor adopt`, `cleanup`, `migrate`, `preflight`,
// `uninstall`, `unlock` and `exceptions rotate-key`.
//
//	root.AddCommand(operate.NewAdopt(), operate.NewCleanup(), operate.NewMigrate(), operate.NewUnlock())
//
// adopt marks objects as generated, cleanup previews what a cleanup policy deletes, migrate rewrites custom resources in their storage
// version, preflight finds what a switch from Kyverno would break, uninstall removes the objects that Ephor created itself, and unlock
// removes the webhook configurations for a limited time.
//
// Floor 8: imports cli/remote, cli/terminal and the floors below.
package operate
