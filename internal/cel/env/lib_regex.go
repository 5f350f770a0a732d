package env

import (
	"ephor.invalid/ephor/internal/cel/price"
)

var libRegex = &Library{
	Name:     "regex",
	Doc:      "Regular expressions: matching strings and finding matches in them.",
	searches: price.Searches,
}
