package load

import (
	"errors"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/diag"
)

// ValueFlags are the flags for the values of variables and for the user who makes the requests.
type ValueFlags struct {
	assignments  []string
	valuesFile   string
	userInfoFile string
	// Warnings are warnings about the files. Read sets them.
	Warnings diag.List
}

// AddFlags adds the flags.
func (o *ValueFlags) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.assignments, "set", "s", nil, "values of variables, as name=value (repeat it, or separate by commas)")
	f.StringVarP(&o.valuesFile, "values-file", "f", "", "file of kind Values: values of variables, labels of namespaces, subresources")
	f.StringVarP(&o.userInfoFile, "userinfo", "u", "", "file of kind UserInfo: the user that makes the requests")
}

// Check refuses flags that exclude each other.
func (o *ValueFlags) Check(f *pflag.FlagSet) error {
	if f.Changed("set") && f.Changed("values-file") {
		return errors.New("pass the values either using set flag or values_file flag\n(write the values of --set into the file, under globalValues)")
	}
	return nil
}

// Read reads the files that the flags name, and stores their warnings. Without any of the flags it returns nil.
func (o *ValueFlags) Read() (*clivalues.Set, error) {
	if len(o.assignments) == 0 && o.valuesFile == "" && o.userInfoFile == "" {
		return nil, nil
	}
	var spec *v1alpha1.ValuesSpec
	if o.valuesFile != "" {
		values, diags := clivalues.ReadValues(o.valuesFile)
		if diags.HasErrors() {
			return nil, terminal.Mistaken("failed to load the values", diags)
		}
		o.Warnings.Add(diags...)
		spec = values
	}
	assignments, diags := clivalues.ParseAssignments(o.assignments)
	o.Warnings.Add(diags...)
	set := clivalues.New(spec, assignments)
	if o.userInfoFile != "" {
		user, diags := clivalues.ReadUserInfo(o.userInfoFile, true)
		if diags.HasErrors() {
			return nil, terminal.Mistaken("failed to load the user info", diags)
		}
		o.Warnings.Add(diags...)
		set.SetUser(user)
	}
	return set, nil
}
