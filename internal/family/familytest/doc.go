// Package familytest holds what the tests of the policy families have in common: requests as data, and results as text.
package familytest
