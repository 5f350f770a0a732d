// Package familytest contains helpers for the tests of the policy families: they build requests from data and format results as text.
package familytest
