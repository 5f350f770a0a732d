// Package deleting is the family of DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io: policies that delete objects on a
// schedule.
//
//	program := deleting.Family.Compile(family.Source{Object: object})   // one rule of stage delete, and program.Schedule
//
// The rule passes for an object that is to be deleted, with the deletion as work, and fails for one that the constraints select and
// whose conditions do not hold. A policy with a mistake in its schedule has none: the command line evaluates it, and no run is due.
//
// It neither waits for the schedule nor deletes anything.
//
// Floor 2: imports celpolicy, celrule, policy and leaves.
package deleting
