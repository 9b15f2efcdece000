import type { Database, DatabaseRequest, DatabaseTransaction, IndexedDatabases } from './browser.js'

type Values = ReturnType<DatabaseTransaction['objectStore']>

/** Makes one request to the values of the client in IndexedDB. Loaded on first use. @throws Error of IndexedDB */
export async function askDatabase(
  databases: IndexedDatabases,
  use: (values: Values) => DatabaseRequest
): Promise<string | undefined> {
  const opening = databases.open('did-auth', 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore('values')
  const database: Database = await settled(opening, 'onsuccess')
  const transaction = database.transaction('values', 'readwrite')
  const request = use(transaction.objectStore('values'))
  await settled(transaction, 'oncomplete')
  database.close()
  return request.result
}

function settled<T>(request: DatabaseRequest<T>, success: 'onsuccess' | 'oncomplete'): Promise<T> {
  return new Promise((resolve, reject) => {
    request[success] = () => resolve(request.result)
    request.onerror = () => reject(Error('IndexedDB failed', { cause: request.error }))
  })
}
