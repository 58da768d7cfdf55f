//go:build linux

package inprocess

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// How a node ingress handles client certificates.
const (
	certRequired = "required" // during the handshake, if the server can
	// a certificate is verified; a request without one is passed on, and the platform refuses it
	certOptional = "optional"
	certOrClose  = "close" // like optional, but a request without one closes the connection
	certOr403    = "403"   // the handshake accepts any; the server responds with 403 to an untrusted one
)

// door is one listener of a server under test. Its backend is a listener of the platform, or a substitute.
type door struct {
	port    int
	backend string // host:port

	cert, key, both string // files, see platformtest.ServerFiles
	tls             string // "1.2" or "1.3"
	h2              bool   // HTTP/2 and nothing else

	clients   string // certRequired and so on; "" asks for no certificate
	ca, crl   string // files
	secret    string // that the platform wants of its ingress
	status    int    // answered by the server itself, with page
	only      string // the path that the server answers itself; "": all
	page      string
	kind      string // of page; "": HTML
	redirect  string // 302 to there
	noUpgrade bool   // the Upgrade header of requests is not passed on
	noChoice  bool   // the Sec-WebSocket-Protocol header of responses is not passed on
	unnamed   bool   // no handshake names a host that it knows
	impatient bool   // waits only briefly for the backend
	withholds bool   // does not pass on the certificate, although it passes on the secret
	secretly  bool   // passes on the certificate, but no secret
}

// pageKind is the media type of d's own page.
func (d door) pageKind() string { return cmp.Or(d.kind, "text/html") }

const (
	headerIngress = "X-GPUaaS-Ingress"
	headerVerify  = "X-SSL-Client-Verify"
	headerCert    = "X-SSL-Client-Cert"
)

// conf is a configuration that is built line by line.
type conf struct{ strings.Builder }

func (c *conf) add(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// nginxConf configures all doors in one nginx.
func nginxConf(dir, _ string, doors []door) (map[string]string, []string) {
	var c conf
	c.add("error_log stderr;\npid %s/pid;\nevents { worker_connections 256; }\nhttp {\naccess_log off;", dir)
	c.add("map $http_upgrade $on_upgrade { default upgrade; '' ''; }")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		c.add("%s_temp_path %s/%s;", kind, dir, kind)
	}
	for _, d := range doors {
		c.add("server {\nlisten 127.0.0.1:%d ssl;\nssl_protocols TLSv%s;", d.port, d.tls)
		c.add("ssl_certificate %s;\nssl_certificate_key %s;", d.cert, d.key)
		if d.unnamed {
			c.add("ssl_reject_handshake on;")
		}
		verify := map[string]string{
			certRequired: "on", certOptional: "optional", certOrClose: "optional", certOr403: "optional_no_ca",
		}[d.clients]
		if verify != "" {
			c.add("ssl_client_certificate %s;\nssl_verify_client %s;", d.ca, verify)
			if !d.withholds {
				c.add("proxy_set_header %s $ssl_client_verify;", headerVerify)
				c.add("proxy_set_header %s $ssl_client_escaped_cert;", headerCert)
			}
			if !d.secretly {
				c.add("proxy_set_header %s %s;", headerIngress, d.secret)
			}
		}
		if d.crl != "" {
			c.add("ssl_crl %s;", d.crl)
		}
		if d.impatient {
			c.add("proxy_read_timeout 300ms;")
		}
		c.add("proxy_http_version 1.1;\nproxy_set_header Host $http_host;")
		if !d.noUpgrade {
			c.add("proxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection $on_upgrade;")
		}
		if d.noChoice {
			c.add("proxy_hide_header Sec-WebSocket-Protocol;")
		}
		if d.only != "" {
			c.add("location = %s { default_type %s; return %d '%s'; }", d.only, d.pageKind(), d.status, d.page)
		}
		c.add("location / {")
		switch d.clients {
		case certOrClose:
			c.add("if ($ssl_client_verify = NONE) { return 444; }")
		case certOr403:
			c.add("if ($ssl_client_verify != SUCCESS) { return 403; }")
		}
		switch {
		case d.redirect != "":
			c.add("return 302 %s;", d.redirect)
		case d.only != "":
			c.add("proxy_pass http://%s;\nproxy_buffering off;", d.backend)
		case d.status != 0 && d.page != "":
			c.add("default_type %s;\nreturn %d '%s';", d.pageKind(), d.status, d.page)
		case d.status != 0:
			c.add("return %d;", d.status)
		default:
			c.add("proxy_pass http://%s;\nproxy_buffering off;", d.backend)
		}
		c.add("}\n}")
	}
	c.add("}")
	return map[string]string{"nginx.conf": c.String()},
		[]string{"-e", "stderr", "-c", dir + "/nginx.conf", "-g", "daemon off; master_process off;"}
}

// haproxyConf configures all doors in one HAProxy.
func haproxyConf(dir, _ string, doors []door) (map[string]string, []string) {
	var c conf
	c.add("global\n  maxconn 200\ndefaults\n  mode http\n  retries 0")
	c.add("  timeout connect 2s\n  timeout client 60s\n  timeout tunnel 60s")
	for i, d := range doors {
		c.add("frontend f%d\n%s", i, haproxyBind(d))
		switch d.clients {
		case certOrClose:
			c.add("  tcp-request content reject if !{ ssl_c_used }")
		case certOr403:
			c.add("  http-request deny deny_status 403 if !{ ssl_c_used } or { ssl_c_verify gt 0 }")
		}
		if d.clients != "" && !d.secretly {
			c.add("  http-request set-header %s %s", headerIngress, d.secret)
		}
		if d.clients != "" && !d.withholds {
			c.add("  http-request set-header %s SUCCESS if { ssl_c_used }", headerVerify)
			c.add("  http-request set-header %s NONE if !{ ssl_c_used }", headerVerify)
			const begin, end = "-----BEGIN%%%%20CERTIFICATE-----%%%%0A", "%%%%0A-----END%%%%20CERTIFICATE-----%%%%0A"
			c.add("  http-request set-header %s "+begin+"%%[ssl_c_der,base64]"+end+" if { ssl_c_used }", headerCert)
		}
		only := ""
		if d.only != "" {
			only = " if { path " + d.only + " }"
		}
		switch {
		case d.redirect != "":
			c.add("  http-request redirect location %s code 302", d.redirect)
		case d.status != 0 && d.page == "":
			c.add("  http-request deny deny_status %d%s", d.status, only)
		case d.status != 0:
			c.add("  http-request return status %d content-type %s string '%s'%s", d.status, d.pageKind(), d.page, only)
		}
		if d.noUpgrade {
			c.add("  http-request del-header Upgrade")
		}
		if d.noChoice {
			c.add("  http-response del-header Sec-WebSocket-Protocol")
		}
		patience := "60s"
		if d.impatient {
			patience = "300ms"
		}
		c.add("  default_backend b%d\nbackend b%d\n  timeout server %s\n  server s %s", i, i, patience, d.backend)
	}
	return map[string]string{"haproxy.cfg": c.String()}, []string{"-db", "-f", dir + "/haproxy.cfg"}
}

// haproxyBind returns the line of d's listener.
func haproxyBind(d door) string {
	bind := fmt.Sprintf("  bind 127.0.0.1:%d ssl crt %s ssl-min-ver TLSv%s ssl-max-ver TLSv%s", d.port, d.both, d.tls,
		d.tls)
	if d.h2 {
		bind += " alpn h2 proto h2"
	} else {
		bind += " alpn http/1.1"
	}
	if d.unnamed {
		bind += " strict-sni"
	}
	switch d.clients {
	case "":
	case certRequired:
		bind += " verify required ca-file " + d.ca
	case certOr403:
		bind += " verify optional crt-ignore-err all ca-ignore-err all ca-file " + d.ca
	default:
		bind += " verify optional ca-file " + d.ca
	}
	if d.crl != "" {
		bind += " crl-file " + d.crl
	}
	return bind
}

// apacheConf configures all doors in one Apache. program is its path, from which its modules are found.
func apacheConf(dir, program string, doors []door) (map[string]string, []string) {
	var c conf
	c.add("ServerRoot %s\nPidFile %s/pid\nDefaultRuntimeDir %s\nMutex pthread", dir, dir, dir)
	c.add("ErrorLog /dev/stderr\nLogLevel warn\nServerName localhost")
	if os.Getuid() == 0 {
		c.add("User nobody\nGroup nogroup")
	}
	modules := filepath.Join(filepath.Dir(filepath.Dir(program)), "lib/apache2/modules")
	for m := range strings.FieldsSeq(
		"mpm_event authz_core alias headers rewrite ssl http2 proxy proxy_http proxy_wstunnel") {
		c.add("LoadModule %s_module %s/mod_%s.so", m, modules, m)
	}
	c.add("StartServers 1\nServerLimit 1\nThreadsPerChild 64\nMaxRequestWorkers 64")
	for _, d := range doors {
		c.add("Listen 127.0.0.1:%d\n<VirtualHost 127.0.0.1:%d>", d.port, d.port)
		c.add("SSLEngine on\nSSLProtocol -all +TLSv%s", d.tls)
		c.add("SSLCertificateFile %s\nSSLCertificateKeyFile %s", d.cert, d.key)
		verify := map[string]string{certRequired: "require", certOptional: "optional", certOr403: "optional_no_ca"}[d.clients]
		if verify != "" {
			c.add("SSLVerifyClient %s\nSSLCACertificateFile %s", verify, d.ca)
			if !d.secretly {
				c.add("RequestHeader set %s %s", headerIngress, d.secret)
			}
			if !d.withholds {
				c.add("RequestHeader set %s expr=%%{SSL_CLIENT_VERIFY}", headerVerify)
				c.add("RequestHeader set %s expr=%%{escape:%%{SSL_CLIENT_CERT}}", headerCert)
			}
		}
		if d.crl != "" {
			c.add("SSLCARevocationFile %s\nSSLCARevocationCheck leaf", d.crl)
		}
		if d.clients == certOr403 {
			c.add("<Location />\nRequire expr \"%%{SSL_CLIENT_VERIFY} == 'SUCCESS'\"\n</Location>")
		}
		apacheAnswer(&c, d)
		c.add("</VirtualHost>")
	}
	return map[string]string{"apache2.conf": c.String()}, []string{"-X", "-f", dir + "/apache2.conf"}
}

// apacheAnswer returns d's own response, or its backend.
func apacheAnswer(c *conf, d door) {
	if d.only != "" {
		c.add("ProxyPass %s !\nRedirectMatch %d ^%s$", d.only, d.status, d.only)
		d.status = 0
	}
	switch {
	case d.redirect != "":
		c.add("RedirectMatch 302 .* %s", d.redirect)
	case d.status == 200:
		c.add("RewriteEngine on\nRewriteRule .* - [R=200]") // with its own page, "OK"
	case d.status != 0:
		if d.page != "" {
			c.add("ErrorDocument %d \"%s\"", d.status, d.page)
		}
		c.add("RedirectMatch %d .*", d.status)
	default:
		pass := "ProxyPreserveHost On\nProxyPass / http://" + d.backend + "/"
		if !d.noUpgrade {
			pass += " upgrade=websocket"
		}
		if d.impatient {
			pass += " timeout=1"
		}
		c.add("%s", pass)
	}
}

// caddyConf configures all doors in one Caddy.
func caddyConf(dir, _ string, doors []door) (map[string]string, []string) {
	var c conf
	c.add("{\n\tadmin off\n\tauto_https off\n\tskip_install_trust\n\tstorage file_system %s/data", dir)
	for _, d := range doors {
		c.add("\tservers 127.0.0.1:%d {\n\t\tprotocols h1\n\t\tstrict_sni_host insecure_off\n\t}", d.port)
	}
	c.add("}")
	for _, d := range doors {
		c.add("https://:%d {\n\tbind 127.0.0.1\n\ttls %s %s {\n\t\tprotocols tls%s tls%s", d.port, d.cert, d.key, d.tls,
			d.tls)
		mode := map[string]string{
			certRequired: "require_and_verify", certOptional: "verify_if_given", certOrClose: "verify_if_given",
		}[d.clients]
		if mode != "" {
			c.add("\t\tclient_auth {\n\t\t\tmode %s\n\t\t\ttrusted_ca_cert_file %s\n\t\t}", mode, d.ca)
		}
		c.add("\t}")
		c.add("\t@none expression {http.request.tls.client.fingerprint} == \"\"")
		c.add("\t@some expression {http.request.tls.client.fingerprint} != \"\"")
		if d.clients == certOrClose {
			c.add("\tabort @none")
		}
		switch {
		case d.redirect != "":
			c.add("\tredir %s 302", d.redirect)
		case d.only != "":
			c.add("\theader %s Content-Type %s\n\trespond %s `%s` %d", d.only, d.pageKind(), d.only, d.page, d.status)
			caddyPass(&c, d)
		case d.status != 0:
			c.add("\theader Content-Type %s\n\trespond `%s` %d", d.pageKind(), d.page, d.status)
		default:
			caddyPass(&c, d)
		}
		c.add("}")
	}
	return map[string]string{"Caddyfile": c.String()},
		[]string{"run", "--config", dir + "/Caddyfile", "--adapter", "caddyfile"}
}

// caddyPass passes d's requests on.
func caddyPass(c *conf, d door) {
	if d.clients != "" {
		if !d.secretly {
			c.add("\trequest_header %s %s", headerIngress, d.secret)
		}
	}
	if d.clients != "" && !d.withholds {
		c.add("\trequest_header @some %s SUCCESS\n\trequest_header @none %s NONE", headerVerify, headerVerify)
		const begin, end = "-----BEGIN%%20CERTIFICATE-----%%0A", "%%0A-----END%%20CERTIFICATE-----%%0A"
		c.add("\trequest_header @some %s \""+begin+"{http.request.tls.client.certificate_der_base64}"+end+"\"", headerCert)
	}
	c.add("\treverse_proxy %s {", d.backend)
	if d.noUpgrade {
		c.add("\t\theader_up -Upgrade\n\t\theader_up -Connection")
	}
	if d.impatient {
		c.add("\t\ttransport http {\n\t\t\tresponse_header_timeout 300ms\n\t\t}")
	}
	c.add("\t}")
}
