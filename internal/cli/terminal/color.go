package terminal

import "os"

// NoColor reports whether the environment disables colours (https://no-color.org).
func NoColor() bool { return os.Getenv("NO_COLOR") != "" }
