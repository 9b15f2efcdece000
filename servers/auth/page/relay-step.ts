import { qrSvg } from 'express-did-auth/client/qr'
import type { RelayClient } from 'express-did-auth/client/relay'
import { byId, show, write } from './elements.js'
import { Step } from './step.js'

/**
 * Send a text or a file, and open one.
 *
 * @param findRelay - the client with the wallet that the user chose
 */
export function startRelayStep(findRelay: () => RelayClient): void {
  const step = new Step('relay')
  step.onSubmit('send-form', 'Encrypt and send', () => send(findRelay()))
  step.onCopy('copy-link', () => byId('sent-link', HTMLAnchorElement).href)
  /** Of what is shown, for the garbage collector. */
  let url: string | undefined
  step.onSubmit('open-form', 'Open and decrypt', async () => {
    const content = await findRelay().open(byId('open-link', HTMLInputElement).value.trim())
    const isText = typeof content === 'string'
    write('opened-text', isText ? content : '')
    show('opened-text', isText)
    if (url !== undefined) URL.revokeObjectURL(url)
    url = URL.createObjectURL(new Blob([isText ? content : Uint8Array.from(content)]))
    byId('opened-file', HTMLAnchorElement).href = url
    show('opened-file', !isText)
    write('opened-file', isText ? '' : `Save the file (${content.length.toLocaleString()} bytes)`)
    show('opened', true)
    return 'Opened. The content has the hash that the link names.'
  })
}

/** Reads a link to this page, `/open#r=<cid>.<key>`, into the form. @returns whether it is one */
export function readLink(link: string): boolean {
  const isLink = /#r=[^.]+\./.test(link)
  if (isLink) byId('open-link', HTMLInputElement).value = link
  return isLink
}

async function send(relay: RelayClient): Promise<string> {
  const [file] = byId('send-file', HTMLInputElement).files ?? []
  const content =
    file === undefined ? byId('send-text', HTMLTextAreaElement).value : new Uint8Array(await file.arrayBuffer())
  let until = ''
  const onExpiresIn = (seconds: number): void => {
    until = `The relay keeps it until ${new Date(Date.now() + seconds * 1_000).toLocaleString()}.`
  }
  const link = relay.link(await relay.send(content, { onExpiresIn }), new URL('open', location.href).href)
  write('sent-until', until)
  byId('sent-link', HTMLAnchorElement).href = write('sent-link', link)
  byId('sent-code', HTMLImageElement).src = `data:image/svg+xml,${encodeURIComponent(qrSvg(link))}`
  show('sent', true)
  return 'Sent. The relay has the ciphertext only.'
}
