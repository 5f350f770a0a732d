package terminal

import (
	"encoding/csv"
	"strings"

	"github.com/spf13/pflag"
)

// Paths returns a flag that may be repeated or hold several values separated by commas. Several flags may share one
// list; pflag's own slices would replace it.
func Paths(to *[]string) pflag.Value { return pathList{to} }

type pathList struct{ to *[]string }

func (p pathList) String() string {
	if p.to == nil {
		return ""
	}
	return strings.Join(*p.to, ",")
}

func (p pathList) Type() string { return "strings" }

func (p pathList) Set(s string) error {
	if s == "" {
		return nil
	}
	values, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return err
	}
	*p.to = append(*p.to, values...)
	return nil
}
