package diag

// NotPassedOn describes what a node's request lacked when it reached the platform, by the error code of the refusal.
// The edge that terminates the node's TLS adds the client certificate and a secret of its own to each request. The
// result is "" for any other code. The codes are the reference platform's; other platforms do not use them.
func NotPassedOn(code string) string {
	return map[string]string{
		"client_certificate_required": "the platform behind it saw no certificate",
		"ingress_required":            "the platform behind it does not recognize the request as its ingress's",
	}[code]
}
