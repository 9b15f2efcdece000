import { createKeyring, openKeyring, passkey, recovery } from 'express-did-auth/client/keyring'
import { DidAuthClientError, VaultClient, type VaultClientOptions } from 'express-did-auth/client/vault'
import { makeButton, waitForUser, onClick, onCopy, onSubmit } from './answer.js'
import { getElement, make, show } from './elements.js'

const LIST = 'notes'
/** Prefix of the key under which this tab's storage has the recovery code; the DID follows. */
const CODE = 'notes-code '

/** A change of the list, which fails if the list has changed since it was read. */
type Change = (vault: VaultClient, condition: { ifMatch?: string }) => Promise<string>

/**
 * Starts the step of notes. They are encrypted in this page with a key of the user's keyring, which the vault stores.
 *
 * @param hasPasskey - whether the user's wallet is a passkey, which then opens the keyring as well
 * @returns a function to call when the user changes; it forgets the data of the previous user
 */
export function startVaultStep(vault: VaultClientOptions, hasPasskey: () => boolean): (before?: string) => void {
  const codeInput = getElement('vault-code', HTMLInputElement)
  let key: Uint8Array | undefined
  /** ETag of the list that is shown. Empty before the first read: a note is then added to any list. */
  let condition: { ifMatch?: string } = {}

  async function change(work: Change, mayCreate = false): Promise<string> {
    if (key === undefined) {
      const found = await waitForUser(findKey(new VaultClient(vault), mayCreate))
      key = found.key
      if (found.recoveryCode !== undefined) codeInput.value = found.recoveryCode
      show('vault-code-new', found.recoveryCode !== undefined)
      keepCode()
    }
    const notes = new VaultClient({ ...vault, encrypt: { key } })
    try {
      const outcome = await waitForUser(work(notes, condition))
      await read(notes)
      return outcome
    } catch (error) {
      if (findCode(error) !== 'CONFLICT') throw error
      await read(notes)
      throw new Error('Another device or tab changed the notes meanwhile. The list is up to date now: try again.')
    }
  }

  /** Returns the key in the user's keyring, which is created with the first note. */
  async function findKey(vault: VaultClient, mayCreate: boolean): Promise<{ key: Uint8Array; recoveryCode?: string }> {
    const ownPasskey = hasPasskey() ? [passkey({ rpId: location.hostname })] : []
    const unlock = codeInput.value === '' ? (ownPasskey[0] ?? recovery('')) : recovery(codeInput.value)
    try {
      return await openKeyring({ vault, unlock })
    } catch (error) {
      if (findCode(error) === 'LOCKED') throw new Error('Enter the recovery code of your notes, and try again.')
      if (findCode(error) !== 'KEYRING_MISSING' || !mayCreate) throw error
      return createKeyring({ vault, unlockers: ownPasskey })
    }
  }

  /** Stores the recovery code for this tab and this user, so that a reload finds it. */
  const keepCode = (): void => sessionStorage.setItem(`${CODE}${vault.auth.session?.did ?? ''}`, codeInput.value)

  async function read(vault: VaultClient): Promise<void> {
    // The list is read before the ids. If the ids are newer than the ETag, the vault refuses to change a wrong entry.
    const { contents, etag } = await waitForUser(vault.get(LIST))
    const entries = (await waitForUser(vault.keys())).find(({ key }) => key === LIST)?.entries ?? []
    condition = { ifMatch: etag }
    getElement('notes').replaceChildren(...contents.map((text, index) => makeItem(text, entries[index]?.id ?? '')))
    // The button that had the focus may have been removed with its note.
    if (document.activeElement === document.body) getElement('note').focus()
  }

  function makeItem(text: string, id: string): HTMLLIElement {
    const edit = makeButton('Edit', `Edit the note ${text}`, async () => {
      const area = make('textarea', { rows: '2', 'aria-label': 'The note' })
      area.value = text
      const replace: Change = async (vault, condition) => {
        await vault.replace(LIST, area.value, { id, ...condition })
        return 'Replaced.'
      }
      const save = makeButton('Save', 'Save the note', () => change(replace))
      item.className = 'editing'
      item.replaceChildren(area, make('span', { class: 'actions' }, save))
      area.focus()
    })
    const remove: Change = async (vault, condition) => {
      await vault.delete(LIST, { id, ...condition })
      return 'Deleted.'
    }
    const removal = makeButton('Delete', `Delete the note ${text}`, () => change(remove))
    const item = make('li', {}, make('p', {}, text), make('span', { class: 'actions' }, edit, removal))
    return item
  }

  codeInput.addEventListener('change', () => {
    key = undefined
    keepCode()
  })
  onCopy('copy-code', () => codeInput.value)
  onClick('read-notes', () => change(async () => 'Read and decrypted.'))
  onSubmit('note-form', () =>
    change(async (vault, condition) => {
      const note = getElement('note', HTMLTextAreaElement)
      await vault.add(LIST, note.value, condition)
      note.value = ''
      return 'Added. The vault has the ciphertext only.'
    }, true)
  )
  return (before) => {
    if (before !== undefined) sessionStorage.removeItem(CODE + before)
    getElement('notes').replaceChildren()
    condition = {}
    key = undefined
    codeInput.value = sessionStorage.getItem(`${CODE}${vault.auth.session?.did ?? ''}`) ?? ''
    show('vault-code-new', false)
  }
}

const findCode = (error: unknown): string | undefined => (error instanceof DidAuthClientError ? error.code : undefined)
