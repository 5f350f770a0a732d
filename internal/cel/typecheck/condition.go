package typecheck

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/kubeversion"
)

// conditionEnvs holds the environments of Condition, by version.
var conditionEnvs sync.Map // kubeversion.Minor → func() (*cel.Env, error)

// Condition returns the reason why an API server would reject a new match condition of a webhook; nil if it accepts the condition. The
// server accepts only functions of the version major.minor, the oldest with which it stays compatible.
func Condition(major, minor uint, expression string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the expression cannot be compiled: the CEL library panics: %v", r)
		}
	}()
	expression = strings.TrimSpace(expression)
	if err := (*compilecost.Allowance)(nil).CEL(expression); err != nil {
		return err
	}
	if major != 1 {
		return fmt.Errorf("the functions of Kubernetes %d.%d are not known", major, minor)
	}
	oldest := kubeversion.Minor(min(minor, uint(kubeversion.Newest)))
	// The server itself is at least one version newer, and newer versions may lack a function.
	for _, v := range []kubeversion.Minor{oldest, (oldest + 1).Known()} {
		made, _ := conditionEnvs.LoadOrStore(env.EnvironmentOf(v), sync.OnceValues(func() (*cel.Env, error) { return conditionEnv(env.Base(v)) }))
		of, err := made.(func() (*cel.Env, error))()
		if err != nil {
			return err
		}
		checked, err := Check(of, expression, nil)
		if err != nil {
			return err
		}
		if err := HasType(env.Native, checked.OutputType(), Bool); err != nil {
			return err
		}
	}
	return nil
}

// conditionEnv declares the variables of match conditions.
func conditionEnv(base *cel.Env) (*cel.Env, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	return env.WithTypes(base, []*apiservercel.DeclType{request, namespace},
		cel.Variable(plugincel.ObjectVarName, cel.DynType), cel.Variable(plugincel.OldObjectVarName, cel.DynType),
		cel.Variable(plugincel.RequestVarName, request.CelType()), cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
		cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType), cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType))
}

// Group returns the expression in parentheses. A comment at its end does not hide the closing one.
func Group(expression string) string {
	if strings.Contains(expression, "//") {
		return "(" + expression + "\n)"
	}
	return "(" + expression + ")"
}
