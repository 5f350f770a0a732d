package classic

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
)

// The values that the CRDs allow. They are checked here as well, since a policy may come from a source other than the API server.
var (
	failurePolicies = []string{"Ignore", "Fail"}
	applyRules      = []string{"All", "One"}
	foreachOrders   = []string{"Ascending", "Descending"}
	anyCaseActions  = []string{"audit", "enforce", "Audit", "Enforce"}
	failureActions  = []string{"Audit", "Enforce"}
	operations      = []string{"CREATE", "CONNECT", "UPDATE", "DELETE"}
	signatureTypes  = []string{"Cosign", "SigstoreBundle", "Notary"}

	registryProviders = []string{"default", "amazon", "azure", "google", "github"}
)

// oneOf checks an enumeration and reports mistakes with the API server's text. The empty value means that the field is absent.
func (c *checker) oneOf(path, got string, allowed []string) {
	if got == "" || slices.Contains(allowed, got) {
		return
	}
	c.diags.Unsupported(path, got, allowed)
}

func (c *checker) enums() {
	s := c.spec
	if s.ApplyRules != nil {
		c.oneOf("spec.applyRules", string(*s.ApplyRules), applyRules)
	}
	if s.FailurePolicy != nil {
		c.oneOf("spec.failurePolicy", string(*s.FailurePolicy), failurePolicies)
	}
	if w := s.WebhookConfiguration; w != nil && w.FailurePolicy != nil {
		c.oneOf("spec.webhookConfiguration.failurePolicy", string(*w.FailurePolicy), failurePolicies)
	}
	c.action("spec.validationFailureAction", string(s.ValidationFailureAction))
	c.overrideEnums(s.ValidationFailureActionOverrides, "spec.validationFailureActionOverrides")
}

func (c *checker) overrideEnums(in []kyvernov1.ValidationFailureActionOverride, path string) {
	for i, o := range in {
		c.action(path+"["+strconv.Itoa(i)+"].action", string(o.Action))
	}
}

func (c *checker) action(path, got string) {
	c.oneOf(path, got, anyCaseActions)
	if got == "audit" || got == "enforce" {
		c.diags.Warnf(path, "Validation failure actions enforce/audit are deprecated, use Enforce/Audit instead.")
		c.diags.Code(diag.DeprecatedAction, got)
		c.diags.Hint("write %s", strings.ToUpper(got[:1])+got[1:])
	}
}

func (c *checker) ruleEnums(r *kyvernov1.Rule, path string) {
	if v := r.Validation; v != nil {
		if v.FailureAction != nil {
			c.oneOf(path+".validate.failureAction", string(*v.FailureAction), failureActions)
		}
		c.overrideEnums(v.FailureActionOverrides, path+".validate.failureActionOverrides")
	}
	if r.Mutation != nil {
		c.orders(r.Mutation.ForEachMutation, path+".mutate.foreach")
	}
	for i, v := range r.VerifyImages {
		if v.FailureAction != nil {
			c.oneOf(path+".verifyImages["+strconv.Itoa(i)+"].failureAction", string(*v.FailureAction), failureActions)
		}
		c.oneOf(path+".verifyImages["+strconv.Itoa(i)+"].type", string(v.Type), signatureTypes)
		if credentials := v.ImageRegistryCredentials; credentials != nil {
			for j, p := range credentials.Providers {
				c.oneOf(path+".verifyImages["+strconv.Itoa(i)+"].imageRegistryCredentials.providers["+strconv.Itoa(j)+"]", string(p), registryProviders)
			}
		}
	}
	for _, f := range filters(r, path) {
		for i, o := range f.ResourceDescription.Operations {
			c.oneOf(f.resources()+".operations["+strconv.Itoa(i)+"]", string(o), operations)
		}
	}
}

func (c *checker) orders(loops []kyvernov1.ForEachMutation, path string) {
	for i := range loops {
		at := path + "[" + strconv.Itoa(i) + "]"
		if loops[i].Order != nil {
			c.oneOf(at+".order", string(*loops[i].Order), foreachOrders)
		}
		c.orders(loops[i].ForEachMutation, at+".foreach")
	}
}
