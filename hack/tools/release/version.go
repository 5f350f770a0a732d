package main

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// checkVersion rejects versions that the chart, packages and krew do not all understand: it accepts semantic ones without "v" and without
// build metadata.
func checkVersion(version string) error {
	v, err := semver.StrictNewVersion(version)
	if err != nil {
		return fmt.Errorf("version %q: %w; write it as 1.2.3 or 1.2.3-rc.1", version, err)
	}
	if v.Metadata() != "" {
		return fmt.Errorf("version %q: a tag of an image cannot hold %q", version, "+"+v.Metadata())
	}
	return nil
}

// packageVersion returns the version in the form of Debian and RPM, whose releases sort after "~".
func packageVersion(version string) string { return strings.Replace(version, "-", "~", 1) }
