// Package deleting is the family of DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io: policies that delete objects on a
// schedule.
//
//	program := deleting.Family.Compile(family.Source{Object: object})   // one rule of stage delete, and program.Schedule
//
// The rule passes for an object to delete, with the deletion as work, and fails for one that the constraints select but whose conditions
// are false. A policy with a mistake in its schedule has no schedule: the command line evaluates it, and no run is ever due.
//
// It neither waits for the schedule nor deletes anything.
//
// Floor 2: imports celpolicy, celrule, policy and leaves.
package deleting
