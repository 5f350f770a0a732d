// Package jmespath compiles and evaluates the JMESPath dialect of the Kyverno policy language (language reference §9).
// Floor 0 (leaf): imports budget, value, wildcard, world.
package jmespath
