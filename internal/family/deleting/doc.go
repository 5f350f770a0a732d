// Package deleting is the family of DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io: policies that delete objects on a
// schedule.
//
//	program := deleting.Family.Compile(family.Source{Object: object})   // one rule of stage delete, and program.Schedule
//
// The rule passes for an object to delete and returns the deletion as work. It fails for an object that the constraints select but whose
// conditions are false. If the schedule has a mistake, the Program has no schedule: the command line evaluates the policy, but the
// controller never runs it.
//
// It neither waits for the schedule nor deletes anything.
//
// Floor 2: imports celpolicy, celrule, policy and leaves.
package deleting
