package celenv

var libRegex = &Library{
	Name:     "regex",
	Doc:      "Regular expressions: matching strings and finding matches in them.",
	searches: searching,
}
