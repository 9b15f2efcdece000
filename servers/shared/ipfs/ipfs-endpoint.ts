/** Where the RPC API of a node is, and what every request there says. */
export interface IpfsEndpoint {
  url: string
  headers: Readonly<Record<string, string>>
}

/** The user apart from the URL: `fetch` refuses URLs that hold one, and quotes them whole. */
export function endpointOf(text: string): IpfsEndpoint {
  const url = new URL(text)
  const { username, password } = url
  url.username = ''
  url.password = ''
  const headers = { 'Accept-Encoding': 'identity' }
  const withoutSlash = url.href.replace(/\/+$/, '')
  if (username + password === '') return { url: withoutSlash, headers }
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  return { url: withoutSlash, headers: { ...headers, Authorization: `Basic ${basic}` } }
}
