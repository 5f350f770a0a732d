// Package value is the one JSON representation. Floor 0 (leaf).
package value
