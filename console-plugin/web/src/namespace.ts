/** The namespace of the translations, and the prefix of their keys outside of components. */
export const NAMESPACE = 'plugin__lvms-console';
