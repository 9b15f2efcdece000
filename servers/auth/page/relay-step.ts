import { qrSvg } from 'express-did-auth/client/qr'
import type { RelayClient } from 'express-did-auth/client/relay'
import { waitForUser, onCopy, onSubmit } from './answer.js'
import { getElement, formatDate, fileBytes, show, formatSize, write } from './elements.js'

/** Maximum size of content that fits into a file of the relay after encryption and base64url, with its name. */
const MAX_BYTES = Math.max(0, Math.floor(Number(fileBytes) * 0.75) - 4_200)
const HERE = new URL('open', location.href).href

/** Starts the step that sends a text or a file. A page of its own opens links. */
export function startRelayStep(relay: RelayClient): void {
  write('send-limit', `At most ${formatSize(MAX_BYTES)}.`)
  show('sent-local', /^(?:localhost|127\.|\[::1)/.test(location.hostname))
  onCopy('copy-link', () => getElement('sent-link', HTMLAnchorElement).href)
  onSubmit('send-form', async () => {
    const text = getElement('send-text', HTMLTextAreaElement).value
    const input = getElement('send-file', HTMLInputElement)
    const [content = new File([text], '')] = input.files ?? []
    if (content.size > MAX_BYTES) {
      throw new Error(`At most ${formatSize(MAX_BYTES)} can be sent. This has ${formatSize(content.size)}.`)
    }
    let until = 0
    const onExpiresIn = (seconds: number): number => (until = Math.floor(Date.now() / 1_000) + seconds)
    const uri = await waitForUser(relay.send(content.name === '' ? text : content, { onExpiresIn }))
    input.value = ''
    const link = relay.link(uri, HERE) + (until > 0 ? `&until=${until}` : '')
    write('sent-until', until > 0 ? `The relay keeps it until ${formatDate(until)}.` : '')
    getElement('sent-link', HTMLAnchorElement).href = write('sent-link', link)
    getElement('sent-code', HTMLImageElement).src = `data:image/svg+xml,${encodeURIComponent(qrSvg(link))}`
    show('sent', true)
    return 'Sent. The relay has the ciphertext only.'
  })
  onSubmit('open-form', async () => {
    const link = getElement('open-link', HTMLInputElement).value.trim()
    const own = relay.link(link, HERE)
    location.assign(/^https?:/i.test(link) ? link : own)
  })
}
