package celenv

var libSets = &Library{
	Name: "sets",
	Doc:  "Lists as sets: whether one contains, equals or intersects another.",
	limits: map[string]limit{
		"sets.contains":   crossed,
		"sets.equivalent": crossed,
		"sets.intersects": crossed,
	},
}
