package vantage

import (
	"cmp"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// httpProxyOf returns which variable of an environment names a proxy for an address, by the rules of other HTTP clients
// (NO_PROXY, none for this machine itself), and the proxy's host and port without its login: "HTTPS_PROXY
// (proxy.test:3128)"; "" for none.
func httpProxyOf(getenv func(string) string) func(secure bool, address string) string {
	excluded := cmp.Or(getenv("NO_PROXY"), getenv("no_proxy"))
	return func(secure bool, address string) string {
		to, names := url.URL{Scheme: "http", Host: address}, []string{"HTTP_PROXY", "http_proxy"}
		if secure {
			to.Scheme, names = "https", []string{"HTTPS_PROXY", "https_proxy"}
		}
		for _, name := range append(names, "ALL_PROXY", "all_proxy") {
			set := getenv(name)
			if set == "" {
				continue
			}
			rules := httpproxy.Config{HTTPProxy: set, HTTPSProxy: set, NoProxy: excluded}
			through, err := rules.ProxyFunc()(&to)
			if err != nil || through == nil { // or a value that no client can use
				return ""
			}
			return name + " (" + through.Host + ")"
		}
		return ""
	}
}
