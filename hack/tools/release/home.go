package main

import (
	"fmt"
	"os"
	"strings"
)

// readHome returns the values of home.env, which says where the project lives.
func readHome(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	home := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			home[key] = value
		}
	}
	for _, key := range []string{"EPHOR_HOME", "EPHOR_REGISTRY", "EPHOR_CONTACT"} {
		if home[key] == "" {
			return nil, fmt.Errorf("%s: %s is missing", file, key)
		}
	}
	return home, nil
}

// address returns the URL of the project.
func (r *release) address() string { return "https://" + r.home["EPHOR_HOME"] }

// maintainer returns the name and the address that packages carry.
func (r *release) maintainer() string { return "The Ephor authors <" + r.home["EPHOR_CONTACT"] + ">" }
