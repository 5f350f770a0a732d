package celenv

var libSets = &Library{
	Name: "sets",
	Doc:  "Lists as sets: whether one contains, equals or intersects another.",
	prices: map[string]price{
		"sets.contains":   crossed,
		"sets.equivalent": crossed,
		"sets.intersects": crossed,
	},
}
