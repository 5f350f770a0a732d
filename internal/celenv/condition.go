package celenv

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/compilecost"
)

// conditionEnvs holds the environments of CheckCondition, by version.
var conditionEnvs sync.Map // [2]uint → func() (*cel.Env, error)

// CheckCondition returns the reason why an API server would reject a new match condition of a webhook; nil if it accepts the condition. The
// server accepts only functions of the version major.minor, the oldest with which it stays compatible.
func CheckCondition(major, minor uint, expression string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the expression cannot be compiled: the CEL library panics: %v", r)
		}
	}()
	made, _ := conditionEnvs.LoadOrStore([2]uint{major, minor}, sync.OnceValues(func() (*cel.Env, error) {
		return conditionEnv(environment.MustBaseEnvSet(version.MajorMinor(major, minor)).NewExpressionsEnv())
	}))
	of, err := made.(func() (*cel.Env, error))()
	if err != nil {
		return err
	}
	expression = strings.TrimSpace(expression)
	if err := (*compilecost.Allowance)(nil).CEL(expression); err != nil {
		return err
	}
	checked, err := typed(of, expression, nil)
	if err != nil {
		return err
	}
	return hasType(Native, checked.OutputType(), Bool)
}

// conditionEnv declares the variables of match conditions.
func conditionEnv(base *cel.Env) (*cel.Env, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	return withTypes(base, []*apiservercel.DeclType{request, namespace},
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
