const { dataset } = document.documentElement
/** URLs of the servers, which auth writes into the page. Relay and vault are empty if they do not run with auth. */
export const { auth: serviceUrl = '', relay: relayUrl = '', vault: vaultUrl = '', fileBytes, openReads } = dataset
export const usesCookies = dataset.mode === 'cookie'
export const show = (id: string, isShown: boolean): boolean => (getElement(id).hidden = !isShown)
export const write = (id: string, text: string): string => (getElement(id).textContent = text)

// Browsers provide no encryption without https. The page says so where encryption is needed.
document.documentElement.toggleAttribute('data-insecure', !isSecureContext)

if (URL.canParse(serviceUrl) && new URL(serviceUrl).origin !== location.origin) {
  getElement('own-url', HTMLAnchorElement).href = new URL(location.pathname + location.hash, serviceUrl).href
  write('own-url', serviceUrl)
  show('elsewhere', true)
}

/** Returns an element of the page. @throws Error if the page has no such element */
export function getElement<T extends HTMLElement = HTMLElement>(id: string, type?: abstract new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`The page has no #${id}`)
  // T is HTMLElement if no type is given.
  return element as T
}

/** Enables or disables the buttons that need a wallet or a session. Style sheets use the attribute as well. */
export function allow(need: 'wallet' | 'session', isThere: boolean): void {
  document.documentElement.toggleAttribute(`data-${need}`, isThere)
  const buttons = document.querySelectorAll<HTMLButtonElement>(`button[data-needs=${need}]`)
  for (const button of buttons) button.disabled = !isThere
}

/** Formats a time in seconds since the Unix epoch for users. */
export const formatDate = (seconds: number): string =>
  new Date(seconds * 1_000).toLocaleString([], { dateStyle: 'long', timeStyle: 'short' })

/** Formats a number of bytes for users. */
export const formatSize = (bytes: number): string =>
  bytes < 2 ** 20 ? `${Math.ceil(bytes / 2 ** 10)} KiB` : `${(Math.floor((bytes / 2 ** 20) * 10) / 10).toFixed(1)} MiB`

/** Creates an element from texts and other elements. Texts are never parsed as HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}
