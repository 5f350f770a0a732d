package dashboard

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/browser"
)

// The page asks for a token, shows what its user may list, and forgets the token on request. It does not store it in cookies, storage or the
// address.
func TestSignIn(t *testing.T) {
	namespaces(t, "sign-a", "sign-b")
	apply(t,
		newReport("sign-a", "Pod", "mine", result("p", "r", "fail", "high", "what is mine")),
		newReport("sign-b", "Pod", "theirs", result("p", "r", "fail", "high", "what is theirs")))
	token := account(t, "sign-a", "reader", "sign-a")
	s := serve(t, true, nil)
	ready(t, s.url, token, func(n int) bool { return n >= 2 })

	b := open(t, s.url)
	b.Until(`return !document.querySelector("#login").hidden && document.querySelector("#content").hidden`)
	b.Type("#token", "a-wrong-token"+browser.Enter)
	b.Until(`return document.querySelector("#notices").innerText.includes("does not accept this token") && !document.querySelector("#login").hidden`)
	b.Type("#token", token)
	b.Click("#login button")
	b.Until(loaded)
	if got := b.Text("#status"); !strings.Contains(got, "for system:serviceaccount:sign-a:reader") {
		t.Errorf("the status: %q", got)
	}
	if got := b.Text("#content"); !strings.Contains(got, "what is mine") || strings.Contains(got, "theirs") || strings.Contains(got, "sign-b") {
		t.Errorf("who may list reports of sign-a sees\n%s", got)
	}
	if got := b.Text("#notices"); !strings.Contains(got, "You see the namespaces whose reports you may list.") || !strings.Contains(got, "lies in no namespace are not shown") {
		t.Errorf("the notices: %q", got)
	}
	var kept struct{ Cookie, Local, Session, Address, Page string }
	b.Script(&kept, `return {cookie: document.cookie, local: JSON.stringify({...localStorage}), session: JSON.stringify({...sessionStorage}), address: location.href,
		page: document.documentElement.outerHTML + [...document.querySelectorAll("input")].map((e) => e.value)}`)
	if kept.Cookie != "" || kept.Local != "{}" || kept.Session != "{}" || strings.Contains(kept.Address+kept.Page, token) {
		t.Errorf("the token, or something, is kept: %+v", kept)
	}

	b.Click("#sign-out")
	b.Until(`return !document.querySelector("#login").hidden && document.querySelector("#content").hidden`)
	var page string
	if b.Script(&page, `return document.querySelector("#tiles").textContent + document.querySelector("#results").textContent + document.querySelector("#policies").textContent`); page != "" {
		t.Errorf("what was seen is still there: %q", page)
	}
	// A forgotten token is not sent again.
	b.Script(nil, `location.reload()`)
	b.Until(`return document.readyState === "complete" && !document.querySelector("#login").hidden`)
	calm(t, b, "401 (Unauthorized)")
}
