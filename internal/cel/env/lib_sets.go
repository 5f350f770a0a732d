package env

import (
	"ephor.invalid/ephor/internal/cel/price"
)

var libSets = &Library{
	Name: "sets",
	Doc:  "Lists as sets: whether one contains, equals or intersects another.",
	limits: map[string]price.Limit{
		"sets.contains":   price.Crossed,
		"sets.equivalent": price.Crossed,
		"sets.intersects": price.Crossed,
	},
}
