package terminal

import "os"

// NoColor reports whether the environment asks for output without colours (https://no-color.org).
func NoColor() bool { return os.Getenv("NO_COLOR") != "" }
