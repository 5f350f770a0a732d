package env

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// libExtensions contains extensions of CEL that policies of policies.kyverno.io have and the API server's policies do not.
var libExtensions = &Library{
	Name: "extensions",
	Doc: "Extensions of the language: math.*, base64.encode and base64.decode, regex.replace, regex.extract and regex.extractAll, cel.bind, and helpers " +
		"for protocol buffers.",
	Kinds: everyPolicy,
	options: func(Declarations) []cel.EnvOption {
		return []cel.EnvOption{ext.Math(), ext.Encoders(ext.EncodersVersion(0)), ext.Regex(), ext.Bindings(), ext.Protos()}
	},
}
