package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/api/cli/v1alpha1"
	"github.com/ephor-dev/ephor/internal/clivalues"
	"github.com/ephor-dev/ephor/internal/diag"
)

func (o *applyOptions) addGivenFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.assignments, "set", "s", nil, "values of variables: name=value, several separated by commas (repeat it)")
	f.StringVarP(&o.valuesFile, "values-file", "f", "", "file of kind Values: values of variables, labels of namespaces, subresources")
	f.StringVarP(&o.userInfoFile, "userinfo", "u", "", "file of kind UserInfo: who makes the requests")
}

// readGiven reads the files that the flags name, and keeps their warnings. Without any flag the Set is nil.
func (o *applyOptions) readGiven() (*clivalues.Set, error) {
	if len(o.assignments) == 0 && o.valuesFile == "" && o.userInfoFile == "" {
		return nil, nil
	}
	var spec *v1alpha1.ValuesSpec
	if o.valuesFile != "" {
		values, diags := clivalues.ReadValues(o.valuesFile)
		if diags.HasErrors() {
			return nil, mistaken("failed to load the values", diags)
		}
		o.givenWarnings.Add(diags...)
		spec = values
	}
	assignments, diags := clivalues.ParseAssignments(o.assignments)
	o.givenWarnings.Add(diags...)
	set := clivalues.New(spec, assignments)
	if o.userInfoFile != "" {
		user, diags := clivalues.ReadUserInfo(o.userInfoFile, true)
		if diags.HasErrors() {
			return nil, mistaken("failed to load the user info", diags)
		}
		o.givenWarnings.Add(diags...)
		set.SetUser(user)
	}
	return set, nil
}

// mistaken is an error that lists all mistakes, each on a line of its own.
func mistaken(attempt string, diags diag.List) error {
	text := ""
	for _, d := range diags.Errors() {
		text += "\n  " + d.String()
	}
	return fmt.Errorf("%s:%s", attempt, text)
}
