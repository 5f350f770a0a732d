package lint

import (
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

var laterRequester = &Check{
	Name: "later-requester",
	Doc: "A generate rule that synchronizes, or that is about existing objects, reads the requester. The rule is evaluated again when a source, a generated " +
		"object or the policy changes: there is no requester then, so the rule ends in an error, and the objects are not brought up to date.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  background: false
  rules:
  - name: copy
    match:
      any:
      - resources:
          kinds: [Namespace]
    generate:
      apiVersion: v1
      kind: Secret
      name: "pull-{{ request.userInfo.username }}"
      namespace: "{{ request.object.metadata.name }}"
      synchronize: true
      clone:
        namespace: default
        name: pull
`,
	program: laterRequesters,
}

// laterRequesters warns of generate rules that read the requester although they are evaluated without a request, too.
func laterRequesters(p *policy.Program) (diags diag.List) {
	for _, r := range p.Rules {
		if r.Generation == nil || !r.Generation.Synchronize && !r.Generation.Existing || !r.AsksRequester() {
			continue
		}
		diags.Warnf(r.Path, "the rule reads the requester, whom nobody knows when it is evaluated again after a change of a source, a generated object or the policy")
		diags.Hint("read an annotation of the trigger, in which a mutate rule notes the requester, or remove synchronize and generateExisting")
	}
	return diags
}
