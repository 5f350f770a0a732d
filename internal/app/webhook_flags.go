package app

import "github.com/spf13/pflag"

// webhookFlags configure the webhook configurations.
type webhookFlags struct {
	follow, excludeBootstrap, derive, subresources bool
}

func (f *webhookFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.follow, "autoUpdateWebhooks", true, "update the resource webhooks when policies change; when false, they are created once, for all requests, and not changed")
	fs.BoolVar(&f.excludeBootstrap, "excludeBootstrapResources", false, "never include Nodes and CertificateSigningRequests in webhooks that fail closed, even if a policy names them")
	fs.BoolVar(&f.derive, "deriveMatchConditions", true, "derive the match conditions of webhooks from the policies, so that the API server sends only requests to which a policy may apply")
	fs.BoolVar(&f.subresources, "podSubresources", true, "ask ValidatingPolicies and ImageValidatingPolicies on updates of Pods also about pods/ephemeralcontainers and pods/resize, even if they do not list them")
}
