package celenv

var libRegex = &Library{
	Name: "regex",
	Doc:  "Regular expressions: whether a text matches, and what it holds that matches.",
	prices: map[string]price{
		"matches": crossed,
		"find":    crossed,
		"findAll": crossed,
	},
}
